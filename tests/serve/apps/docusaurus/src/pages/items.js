import React, { useEffect, useState } from "react";
import Layout from "@theme/Layout";
import Link from "@docusaurus/Link";
export default function Items() {
  const [items, setItems] = useState([]);
  useEffect(() => { fetch(`http://api.example/items.json?_=${Date.now()}`).then((r) => r.json()).then(setItems); }, []);
  return <Layout><ul id="list">{items.map((one) => <li key={one.id}><Link to={`/item/${one.id}`}>{one.name}</Link></li>)}</ul></Layout>;
}
