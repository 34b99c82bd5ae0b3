export default {
  title: "Manual", cleanUrls: true,
  themeConfig: { search: { provider: "local" }, sidebar: [{ text: "Guide", link: "/guide" }, { text: "Items", link: "/items" }] },
};
