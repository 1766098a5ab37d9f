package reports

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

// Follower selects the links of a page that are reported to its owner. Not safe for concurrent use.
type Follower struct {
	known  *Known
	index  []int32
	hashes []uint64
	keep   []int32
}

// NewFollower returns a Follower that omits known links.
func NewFollower(known *Known) *Follower { return &Follower{known: known} }

// selection are the links that are reported.
type selection struct {
	urls   [][]byte
	kinds  []byte
	hashes []uint64 // remembered once acknowledged; reused for the next page
}

// AddLinks adds links of a page to its report: those that the job admits and the owner has not
// received yet, and returns their number.
func (f *Follower) AddLinks(r *Report, ref *Job, page string, links []link.Link) (n int) {
	t := f.follow(ref, page, links)
	r.attach(t)
	return len(t.urls)
}

// follow drops links that the job does not admit, that are nofollow, or that the page's owner has
// acknowledged before.
func (f *Follower) follow(ref *Job, page string, links []link.Link) (t selection) {
	f.index, f.hashes, f.keep = f.index[:0], f.hashes[:0], f.keep[:0]
	for i := range links {
		if l := &links[i]; !l.Nofollow && wanted(ref.Spec, l.Kind) {
			f.index = append(f.index, int32(i)) // at most extract.MaxLinks
			f.hashes = append(f.hashes, f.known.hash(l.URL, l.Kind, ref))
		}
	}
	// For a job with a maximum depth every link is reported again, in case it has a smaller depth now.
	learns := ref.Spec != nil && !ref.Spec.BoundsDepth()
	if learns {
		f.keep = f.known.filter(f.hashes, f.keep)
	} else {
		for i := range f.index {
			f.keep = append(f.keep, int32(i)) // as above
		}
	}
	kept, kinds := f.admitted(ref, link.Host(page), links)
	if len(f.keep) == 0 {
		return t
	}
	text := make([]byte, 0, kept)
	t.urls = make([][]byte, len(f.keep))
	if kinds {
		t.kinds = make([]byte, len(f.keep))
	}
	for n, i := range f.keep {
		l := &links[f.index[i]]
		begin := len(text)
		text = append(text, l.URL...)
		t.urls[n] = text[begin:len(text):len(text)]
		if kinds {
			t.kinds[n] = byte(l.Kind)
		}
		f.hashes[n] = f.hashes[i]
	}
	if learns {
		t.hashes = f.hashes[:len(f.keep)]
	}
	return t
}

// admitted drops links that the job does not visit, by host unless they are requisites, or by its
// patterns. It returns the size of the rest, and whether any is not a page.
func (f *Follower) admitted(ref *Job, from string, links []link.Link) (size int, kinds bool) {
	keep := f.keep[:0]
	last, admitted := "", true
	for _, i := range f.keep {
		l := &links[f.index[i]]
		if ref.Spec != nil {
			if name := link.Host(l.URL); name != last {
				last, admitted = name, ref.Spec.MayReach(from, name)
			}
		}
		if (admitted || l.Kind == link.KindRequisite) && (ref.Spec == nil || ref.Spec.Filtered(l.URL, 1, l.Kind) == "") {
			keep = append(keep, i)
			size += len(l.URL)
			kinds = kinds || l.Kind != link.KindPage
		}
	}
	f.keep = keep
	return size, kinds
}

func wanted(spec *job.Spec, kind link.Kind) bool {
	if spec == nil {
		return kind != link.KindRequisite
	}
	switch kind {
	case link.KindRequisite:
		return spec.Requisites
	case link.KindSitemap:
		return !spec.NoSitemaps
	default:
		return true
	}
}
