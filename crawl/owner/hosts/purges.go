package hosts

// purges are the hosts with URLs that are to get their fate, in the order in which they were found.
//
//	state     next      because
//	none      purging   add: some URLs of the host share an outcome; no worker is looked for from here on
//	purging   none      pass: all of them have it
type purges struct{ list []*Host }

func (p *purges) Some() bool { return len(p.list) > 0 }

func (p *purges) add(h *Host) {
	h.purging = true
	p.list = append(p.list, h)
}

func (p *purges) First() *Host { return p.list[0] }

// Pass takes off the first, which may be found again.
func (p *purges) Pass() {
	p.list[0].purging = false
	if p.list = p.list[1:]; len(p.list) == 0 {
		p.list = nil
	}
}
