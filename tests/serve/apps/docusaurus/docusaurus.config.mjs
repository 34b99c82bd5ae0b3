export default {
  title: "Docusaurus",
  url: "http://docusaurus.example",
  baseUrl: "/",
  onBrokenLinks: "ignore",
  presets: [["classic", { docs: { sidebarPath: undefined }, blog: false, theme: { customCss: "./src/css/custom.css" } }]],
  themeConfig: { navbar: { title: "Home", items: [{ to: "/items", label: "Items" }, { to: "/docs/first", label: "Docs" }] } },
};
