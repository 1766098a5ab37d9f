package placement

// Owner leaves every host with its owner: no delegation, the baseline without messages. Only an
// overloaded owner gives a host to the next candidate.
type Owner struct{}

// Next implements Strategy.
func (Owner) Next(v *View) Choice {
	return Choice{Worker: keeper(v.Able()), Why: "hosts stay with their owners"}
}
