export default function Home() { return <h1>Home of Next</h1>; }
