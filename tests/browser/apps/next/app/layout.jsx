import Link from "next/link";
export const metadata = { title: "Next" };
export default function Layout({ children }) {
  return <html lang="en"><body><nav><Link href="/">Home</Link> <Link href="/items">Items</Link> <Link href="/about">About</Link></nav>{children}</body></html>;
}
