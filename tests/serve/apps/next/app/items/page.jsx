"use client";
import { useEffect, useState } from "react";
import Link from "next/link";
export default function Items() {
  const [items, setItems] = useState([]);
  useEffect(() => { fetch(`http://api.example/items.json?_=${Date.now()}`).then((r) => r.json()).then(setItems); }, []);
  return <ul>{items.map((one) => <li key={one.id}><Link href={`/item/${one.id}`}>{one.name}</Link></li>)}</ul>;
}
