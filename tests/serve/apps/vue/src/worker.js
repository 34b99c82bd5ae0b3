onmessage = async (event) => postMessage(event.data * 2 + " " + (await (await fetch("/api/item/1")).json()).name);
