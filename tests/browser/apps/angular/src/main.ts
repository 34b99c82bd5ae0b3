import { Component, provideZonelessChangeDetection } from "@angular/core";
import { bootstrapApplication } from "@angular/platform-browser";
import { provideRouter, RouterLink, RouterOutlet } from "@angular/router";

@Component({ selector: "app-home", template: "<h1>Home of Angular</h1>" })
class Home {}

@Component({
  selector: "app-root", imports: [RouterLink, RouterOutlet],
  template: `<nav><a routerLink="/">Home</a> <a routerLink="/items">Items</a> <a routerLink="/about">About</a></nav><router-outlet />`,
})
class App {}

bootstrapApplication(App, { providers: [provideZonelessChangeDetection(), provideRouter([
  { path: "", component: Home },
  { path: "items", loadComponent: () => import("./items").then((m) => m.Items) },
  { path: "about", loadComponent: () => import("./about").then((m) => m.About) },
])] });
