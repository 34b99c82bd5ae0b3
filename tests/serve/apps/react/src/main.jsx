import React, { Suspense, lazy, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter, Link, Route, Routes, useParams } from "react-router-dom";
import "./style.css";

const About = lazy(() => import("./About.jsx"));
const API = "http://api.example";

function Items() {
  const [items, setItems] = useState([]);
  useEffect(() => { fetch(`${API}/items.json?_=${Date.now()}`).then((r) => r.json()).then(setItems); }, []);
  return <ul>{items.map((one) => <li key={one.id}><Link to={`/item/${one.id}`}>{one.name}</Link></li>)}</ul>;
}
function Item() {
  const { id } = useParams();
  const [item, setItem] = useState(null);
  useEffect(() => { fetch("/api/item/" + id).then((r) => r.json()).then(setItem); }, [id]);
  return <p id="item">{item ? `${item.name} at ${window.location.host}` : "waiting"}</p>;
}
function Stored() {
  const [count] = useState(() => { localStorage.count = Number(localStorage.count ?? 0) + 1; return localStorage.count; });
  return <p id="stored">{Number(count) > 0 ? "stored" : "no"}</p>;
}
createRoot(document.getElementById("root")).render(
  <BrowserRouter>
    <nav><Link to="/">Home</Link> <Link to="/items">Items</Link> <Link to="/about">About</Link> <Link to="/stored">Stored</Link></nav>
    <Suspense fallback={<p>waiting</p>}>
      <Routes>
        <Route path="/" element={<h1>Home of React</h1>} />
        <Route path="/items" element={<Items />} />
        <Route path="/item/:id" element={<Item />} />
        <Route path="/about" element={<About />} />
        <Route path="/stored" element={<Stored />} />
      </Routes>
    </Suspense>
  </BrowserRouter>,
);
