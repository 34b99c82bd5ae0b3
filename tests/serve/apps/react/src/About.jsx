import logo from "./logo.svg?url";
export default function About() { return <p id="about">About <img src={logo} alt="" onLoad={(e) => e.target.setAttribute("alt", "drawn")} /></p>; }
