package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/control"
)

// TestJobsOfConfig: whose jobs a peer takes is any, mine or a file, and in the public profile they
// are signed.
func TestJobsOfConfig(t *testing.T) {
	mine, other := crawltest.Key(1), crawltest.Key(2)
	list := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(list, []byte(peer.ID(other.ID()).String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, one, two := crawltest.Job(t, nil, "http://a.example/"), crawltest.SignedJob(t, mine, nil, "http://a.example/"), crawltest.SignedJob(t, other, nil, "http://a.example/")
	for _, row := range []struct {
		profile Profile
		jobs    string
		want    string // of a job that is not signed, one of this peer's key, and one of another's
	}{
		{ProfileLab, "", "[true true true]"},
		{ProfileLab, JobsAny, "[true true true]"},
		{ProfilePublic, JobsAny, "[false true true]"},
		{ProfileLab, JobsMine, "[false true false]"},
		{ProfileLab, list, "[false false true]"},
		{ProfilePublic, list, "[false false true]"},
	} {
		w, err := (&Config{Profile: row.profile, Jobs: row.jobs}).whose(mine)
		got := []bool{w.Takes(plain) == nil, w.Takes(one) == nil, w.Takes(two) == nil}
		if err != nil || fmt.Sprint(got) != row.want {
			t.Errorf("%s, %s: %v, %v; want %s", row.profile, row.jobs, got, err, row.want)
		}
	}
	for _, jobs := range []string{"all", t.TempDir(), filepath.Join(t.TempDir(), "nowhere")} {
		if _, err := (&Config{Jobs: jobs}).whose(mine); control.KindOf(err) != control.KindUsage || !strings.Contains(err.Error(), "any, mine") {
			t.Errorf("%q: %v", jobs, err)
		}
	}
}

// TestJobKeysOfARing: of three peers two have a job key in common. Each of these can pause what was
// posted at the other, the third cannot, and it waits for the end without harm.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestJobKeysOfARing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var peers []*testPeer
	for i := range 3 {
		cfg := testConfig(filepath.Join(dir, fmt.Sprint("peer", i+1)), i+1)
		if i < 2 {
			cfg.JobKey = filepath.Join(dir, "job.key")
		}
		if i > 0 {
			cfg.Bootstrap = []string{peers[0].ring.net.Addrs()[0]}
		}
		peers = append(peers, startWith(t, cfg))
	}
	settle(t, peers)
	web := serveWeb(t, func(c *webgen.Config) { c.Hosts, c.PagesPerHost = 2, 20 })
	j, err := peers[0].Post(t.Context(), control.JobSpec{URLs: web.Seeds(web.port)})
	if err != nil {
		t.Fatal(err)
	}
	one, err := peers[1].JobKey(t.Context())
	if err != nil || !j.Signed || j.Poster != one.ID {
		t.Errorf("%+v, %v; want it signed by %v", j, err, one)
	}
	if _, err := peers[2].SetJob(t.Context(), j.ID, "cancel"); control.KindOf(err) != control.KindRefused || !strings.Contains(err.Error(), one.ID) || !strings.Contains(err.Error(), "--job-key") {
		t.Errorf("canceled without the key: %v", err)
	}
	for _, step := range []struct {
		at           int
		action, want string
	}{{1, "pause", "paused"}, {0, "resume", "running"}} {
		if now, err := peers[step.at].SetJob(t.Context(), j.ID, step.action); err != nil || now.State != step.want {
			t.Errorf("%s at peer %d: %+v, %v", step.action, step.at+1, now, err)
		}
	}
	waitIdle(t, peers[2])
	if _, err := peers[2].SetJob(t.Context(), j.ID, "finish"); err != nil {
		t.Errorf("finished without the key: %v", err)
	}
	if now, err := peers[1].SetJob(t.Context(), j.ID, "finish"); err != nil || now.State != control.JobDone {
		t.Errorf("finished: %+v, %v", now, err)
	}
}
