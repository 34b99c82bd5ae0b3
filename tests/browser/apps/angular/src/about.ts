import { Component } from "@angular/core";

@Component({ selector: "app-about", template: "<p id=about>About Angular</p>" })
export class About {}
