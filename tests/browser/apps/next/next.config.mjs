export default { output: "export", distDir: "dist", images: { unoptimized: true } };
