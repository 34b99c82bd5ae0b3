import { Component, signal } from "@angular/core";

@Component({ selector: "app-items", template: "<ul>@for (one of items(); track one.id) {<li>{{ one.name }}</li>}</ul>" })
export class Items {
  items = signal<{ id: number; name: string }[]>([]);
  constructor() { fetch(`http://api.example/items.json?_=${Date.now()}`).then((r) => r.json()).then((found) => this.items.set(found)); }
}
