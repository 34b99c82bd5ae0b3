import React from "react";
import Layout from "@theme/Layout";
export default function Home() { return <Layout><main><h1>Home of Docusaurus</h1></main></Layout>; }
