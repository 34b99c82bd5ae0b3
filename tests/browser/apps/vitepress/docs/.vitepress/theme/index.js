import DefaultTheme from "vitepress/theme";
import Items from "./Items.vue";
export default { ...DefaultTheme, enhanceApp({ app }) { app.component("Items", Items); } };
