"use client";
import { useEffect, useState } from "react";
export default function Stored() {
  const [text, setText] = useState("no");
  useEffect(() => { localStorage.count = Number(localStorage.count ?? 0) + 1; if (Number(localStorage.count) > 0) setText("stored"); }, []);
  return <p id="stored">{text}</p>;
}
