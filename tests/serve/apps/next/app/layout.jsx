import Link from "next/link";
import "./style.css";
export const metadata = { title: "Next" };
export default function Layout({ children }) {
  return <html lang="en"><body>
    <nav><Link href="/">Home</Link> <Link href="/items">Items</Link> <Link href="/about">About</Link> <Link href="/stored">Stored</Link></nav>
    {children}
  </body></html>;
}
