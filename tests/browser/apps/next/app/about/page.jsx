"use client";
import dynamic from "next/dynamic";
const Late = dynamic(() => import("./late.jsx"), { ssr: false, loading: () => <p>waiting</p> });
export default function Page() { return <Late />; }
