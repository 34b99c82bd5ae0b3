export default function Late() { return <p id="about">About Next, later</p>; }
