"use client";
import { useEffect, useState } from "react";
export default function Item({ id }) {
  const [item, setItem] = useState(null);
  useEffect(() => { fetch("/api/item/" + id).then((r) => r.json()).then(setItem); }, [id]);
  return <p id="item">{item ? `${item.name} at ${window.location.host}` : "waiting"}</p>;
}
