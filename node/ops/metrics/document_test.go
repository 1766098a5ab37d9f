package metrics

import (
	"fmt"
	"io"
	"strings"
)

// document writes the table as Markdown.
func document(w io.Writer) error {
	var b strings.Builder
	b.WriteString(intro)
	for _, s := range table() {
		labels := "-"
		if len(s.labels) > 0 {
			labels = "`" + strings.Join(s.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", namespace, s.name, s.kind, labels, s.help)
	}
	b.WriteString(outro)
	_, err := io.WriteString(w, b.String())
	return err
}

const intro = `# Metrics

<!-- Made by ` + "`go test ./node/ops/metrics -update`" + `. Do not edit. -->

A peer serves Prometheus metrics at ` + "`/metrics`" + `, on the address of ` + "`--metrics`" + ` and on its control API. The flag is off by default. It accepts loopback addresses only, unless ` + "`--api-remote`" + ` is set.

    apoidea run --metrics 127.0.0.1:9464
    curl -s http://127.0.0.1:9464/metrics
    curl -s --unix-socket ~/.local/share/apoidea/apoidea.sock http://peer/metrics

Names are stable: series and labels are only added. [grafana/apoidea.json](grafana/apoidea.json) is a Grafana dashboard.

Gauges such as ` + "`apoidea_pages`" + ` equal the figures of ` + "`apoidea status`" + ` and cover the hosts that the peer owns now (owned hosts). They move
with a host when its owner changes. Their sum over all members is the total of the crawl. Counters start at 0 with the process.

| series | kind | labels | meaning |
| --- | --- | --- | --- |
`

const outro = `
The peer also exports the series of the Go runtime (` + "`go_`" + `) and of the process (` + "`process_`" + `). The endpoint of ` + "`--metrics`" + ` adds those of
libp2p (` + "`libp2p_`" + `), whose names libp2p may change.
`
