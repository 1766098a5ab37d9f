package trust

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
)

// TestJudgment: a worker loses only if two others report nearly the same page, and it reports
// another one.
func TestJudgment(t *testing.T) {
	const b12, b13, b16, b20, b24, b25 = 1<<12 - 1, 1<<13 - 1, 1<<16 - 1, 1<<20 - 1, 1<<24 - 1, 1<<25 - 1
	page := func(worker string, words, links uint64) Opinion {
		return Opinion{Worker: worker, Outcome: link.OutcomeOK, Digest: []byte(worker), Words: ^words, Links: links}
	}
	for _, tt := range []struct {
		name  string
		words [3]uint64
		links [3]uint64
		want  Result
		loser string
	}{
		{"confirmed", [3]uint64{0, b16}, [3]uint64{}, Agreed, ""},
		{"the first stands alone", [3]uint64{b25, 0, 0}, [3]uint64{}, Lost, "a"},
		{"the second stands alone", [3]uint64{0, b25, 0}, [3]uint64{}, Lost, "b"},
		{"others with another advertisement", [3]uint64{0, b25 << 8, b25<<8 | b12<<40}, [3]uint64{}, Lost, "a"},
		{"others that differ more", [3]uint64{0, b25 << 8, b25<<8 | b13<<40}, [3]uint64{}, Unclear, ""},
		{"a version that is not far", [3]uint64{b24, 0, 0}, [3]uint64{}, Unclear, ""},
		{"all differ", [3]uint64{0, b25, b25 << 32}, [3]uint64{}, Unclear, ""},
		{"between the two others", [3]uint64{0, b20 | b20<<20, b20}, [3]uint64{}, Unclear, ""},
		{"forged links", [3]uint64{}, [3]uint64{b25, 0, 0}, Lost, "a"},
	} {
		c := Check{Opinions: []Opinion{page("a", tt.words[0], tt.links[0])}}
		got, loser := c.Add(page("b", tt.words[1], tt.links[1]))
		if got == Open {
			got, loser = c.Add(page("c", tt.words[2], tt.links[2]))
		}
		if got != tt.want || loser != tt.loser {
			t.Errorf("%s: %v, loser %q; want %v, %q", tt.name, got, loser, tt.want, tt.loser)
		}
	}
}

// TestBar: the time without leases doubles with each loss.
func TestBar(t *testing.T) {
	w := new(Worker)
	for i, hours := range []uint64{1, 2, 4} {
		if w.Lose(1000); !w.Suspended(1000+hours*3600-1) || w.Suspended(1000+hours*3600) {
			t.Errorf("loss %d: want a bar of %d h", i+1, hours)
		}
	}
}
