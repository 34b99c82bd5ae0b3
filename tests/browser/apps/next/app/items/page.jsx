"use client";
import { useEffect, useState } from "react";
export default function Page() {
  const [items, setItems] = useState([]);
  useEffect(() => { fetch(`http://api.example/items.json?_=${Date.now()}`).then((r) => r.json()).then(setItems); }, []);
  return <ul>{items.map((one) => <li key={one.id}>{one.name}</li>)}</ul>;
}
