package export

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// offsets are where the records of a file begin.
func offsets(t *testing.T, raw []byte) (list []int64) {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(raw), true)
	for {
		rec, err := r.Next()
		if err != nil {
			return list
		}
		list = append(list, rec.Offset)
	}
}

// TestGoesOnBehindDamage: bytes that are overwritten cost the records that they touch, and no
// others; each loss is named; with the index, without it, and with one that is damaged too.
func TestGoesOnBehindDamage(t *testing.T) {
	for name, spoil := range map[string]func(index []byte) []byte{
		"index":         func(i []byte) []byte { return i },
		"no index":      func([]byte) []byte { return nil },
		"damaged index": func(i []byte) []byte { return append(bytes.Clone(i[:len(i)/2]), bytes.Repeat([]byte{7}, 100)...) },
	} {
		t.Run(name, func(t *testing.T) {
			src := world(t)
			raw := src.files["p1"]["1.warc.gz"]
			at := offsets(t, raw)
			src.files["p1"]["1.cdxj"] = spoil(src.files["p1"]["1.cdxj"])
			copy(raw[at[4]+5:], bytes.Repeat([]byte{0xaa}, int(at[8]-at[4]))) // the second page, the third, and the head of what follows
			var b bytes.Buffer
			r, err := Run(t.Context(), src, Options{What: WARC, Stream: &b})
			if err != nil || r.Complete || len(r.Damaged) != 1 || len(r.Missing) != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			d := r.Damaged[0]
			if d.Offset != at[4] || d.Bytes != at[9]-at[4] {
				t.Errorf("damaged %v, want the bytes from %d to %d", d, at[4], at[9])
			}
			if n := records(t, b.Bytes()); n != 3+3*16-1-5 || int64(n) != r.Records {
				t.Errorf("%d records, told %d", n, r.Records)
			}
			if name == "index" && !slices.Equal(d.URLs, []string{"http://a.example/5", "http://a.example/6"}) {
				t.Errorf("URLs %v", d.URLs)
			}
		})
	}
}

// TestLostRecords: records of which the archive holds nothing are named, whether a file or all of
// them are gone; for each kind that is made of archives.
func TestLostRecords(t *testing.T) {
	for _, what := range []string{WARC, CDXJ, WACZ, Links} {
		src := &listed1{ring: world(t)}
		for _, at := range idsOf(t, src.files["p1"]["1.warc.gz"]) {
			src.lines = append(src.lines, control.URLLine{URL: at[1], Record: at[0], Holder: "p1", Fetched: "2023-11-14T22:13:20.000Z"})
		}
		src.lines = append(src.lines, control.URLLine{URL: "http://elsewhere.example/", Record: "urn:uuid:1", Holder: "p9"})
		var b bytes.Buffer
		if r, err := Run(t.Context(), src, Options{What: what, Stream: &b}); err != nil || !r.Complete {
			t.Fatalf("%s: %+v, %v", what, r, err)
		}
		delete(src.files["p1"], "1.warc.gz")
		src.files["p1"]["1.cdxj.moved"] = src.files["p1"]["1.cdxj"]
		delete(src.files["p1"], "1.cdxj")
		if r, err := Run(t.Context(), src, Options{What: what, Stream: &b}); err != nil || !r.Complete || r.Moved != 7 {
			t.Errorf("%s of a moved file: %+v, %v", what, r, err)
		}
		delete(src.files["p1"], "1.cdxj.moved")
		r, err := Run(t.Context(), src, Options{What: what, Stream: &b})
		if err != nil || r.Complete || r.LostTotal != 7 || len(r.Lost) != 7 || r.Lost[0].Peer != "p1" {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
}

// listed1 is a ring of which the first peer lists URLs.
type listed1 struct {
	*ring
	lines []control.URLLine
}

func (l *listed1) URLs(_ context.Context, peer, _ string) (*control.URLPage, error) {
	if peer != "p1" {
		return &control.URLPage{}, nil
	}
	return &control.URLPage{URLs: l.lines}, nil
}

// idsOf are the IDs and URLs of a file's responses.
func idsOf(t *testing.T, raw []byte) (list [][2]string) {
	t.Helper()
	r := warc.NewReader(bytes.NewReader(raw), true)
	for {
		rec, err := r.Next()
		if err != nil {
			return list
		}
		if rec.Type == warc.TypeResponse {
			list = append(list, [2]string{rec.ID, rec.TargetURI})
		}
	}
}

// TestIndexBelongs: the index leads into the file that export warc makes, each line to its record;
// made of the archive and made of the file it is the same.
func TestIndexBelongs(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "x.warc.gz")
	src := world(t)
	bad := src.files["p2"]["2.warc.gz"] // what is left out moves what follows
	copy(bad[offsets(t, bad)[4]+5:], "damage")
	if _, err := Run(t.Context(), src, Options{What: WARC, Output: whole}); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(dir, "x.cdxj")
	if _, err := Run(t.Context(), src, Options{What: CDXJ, Output: index, Of: OfOutput(index)}); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if n := leads(t, lines, "x.warc.gz", raw); n != 15 {
		t.Errorf("%d lines", n)
	}
}
