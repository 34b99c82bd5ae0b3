export default function Page() { return <h1>Home of Next</h1>; }
