// Serves files, by itself or by workers.
const [port, site, workers] = process.argv.slice(2);
const cluster = require('cluster'), http = require('http'), fs = require('fs');
if (cluster.isPrimary && workers > 0) {
    for (let i = 0; i < workers; i++) cluster.fork();
    process.on('SIGTERM', () => { for (const id in cluster.workers) cluster.workers[id].kill(); process.exit(0); });
} else {
    http.createServer((request, response) => {
        const file = site + '/' + request.url.slice(1);
        response.setHeader('Content-Length', fs.statSync(file).size);
        fs.createReadStream(file).pipe(response);
    }).listen({ port: Number(port), host: '0.0.0.0', backlog: 512 });
}
