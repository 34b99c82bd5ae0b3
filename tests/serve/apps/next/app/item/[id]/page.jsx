import Item from "./item";
export const generateStaticParams = () => [{ id: "1" }, { id: "2" }];
export default async function Page({ params }) { return <Item id={(await params).id} />; }
