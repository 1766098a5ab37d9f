package hosts

// purges lists the hosts with URLs to purge, in order of arrival.
//
//	state     next      because
//	none      purging   add: some URLs of the host share an outcome; the search for a worker is suspended
//	purging   none      pass: all of them have it
type purges struct{ list []*Host }

func (p *purges) Some() bool { return len(p.list) > 0 }

func (p *purges) add(h *Host) {
	h.purging = true
	p.list = append(p.list, h)
}

func (p *purges) First() *Host { return p.list[0] }

// Pass removes the first host, which may be added again.
func (p *purges) Pass() {
	p.list[0].purging = false
	if p.list = p.list[1:]; len(p.list) == 0 {
		p.list = nil
	}
}
