package show

import (
	"bytes"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

func TestPrintPutOff(t *testing.T) {
	var out bytes.Buffer
	if err := PutOff(&out, &control.Status{}); err != nil || out.Len() > 0 {
		t.Errorf("nothing is put off, and yet: %s", out.String())
	}
	c := control.Status{Counters: control.Counters{URLsPutOff: 12, HostsPutOff: 3}, Waits: []control.Wait{
		{Reason: "asked", Hosts: 3, URLs: 12, PutOff: 12, HostsPutOff: 3, NextS: 60, NextPutOffS: 3600, Examples: []control.WaitingHost{
			{Host: "a.test", URLs: 10, PutOff: 10, NextS: 86400, Why: "Too Many Requests"}, {Host: "b.test", URLs: 1, PutOff: 1, NextS: 3600},
		}},
		{Reason: "dns", Hosts: 1, URLs: 1, NextS: 5, Examples: []control.WaitingHost{{Host: "c.test", URLs: 1, NextS: 5}}},
	}}
	if err := PutOff(&out, &c); err != nil {
		t.Fatal(err)
	}
	want := "deferred: 12 URLs on 3 hosts, next retry in 1h0m0s; the same command retries them\n" +
		"  a.test: Too Many Requests, 10 URLs, in 24h0m0s\n  b.test, 1 URL, in 1h0m0s\n  and 1 host more (waiting)\n"
	if out.String() != want {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
}
