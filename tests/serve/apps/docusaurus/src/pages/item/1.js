import React, { useEffect, useState } from "react";
import Layout from "@theme/Layout";
export default function Item() {
  const [item, setItem] = useState(null);
  useEffect(() => { fetch("/api/item/1").then((r) => r.json()).then(setItem); }, []);
  return <Layout><p id="item">{item ? `${item.name} at ${window.location.host}` : "waiting"}</p></Layout>;
}
