import { createApp } from "vue";
import { createRouter, createWebHistory } from "vue-router";
import App from "./App.vue";

const router = createRouter({ history: createWebHistory(), routes: [
  { path: "/", component: () => import("./Home.vue") },
  { path: "/items", component: () => import("./Items.vue") },
  { path: "/item/:id", component: () => import("./Item.vue") },
  { path: "/worker", component: () => import("./Work.vue") },
  { path: "/form", component: () => import("./Form.vue") },
] });
createApp(App).use(router).mount("#app");
