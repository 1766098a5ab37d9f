package placement

// Owner leaves every host with its owner: no delegation, the baseline that costs no message.
type Owner struct{}

// Next implements Strategy.
func (Owner) Next(v *View) Choice {
	return Choice{Worker: v.self(), Why: "hosts stay with their owners"}
}
