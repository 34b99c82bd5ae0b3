export default function About() { return <p id="about">About, made by the server</p>; }
