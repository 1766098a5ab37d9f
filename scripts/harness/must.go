package harness

// failure is what Check and Must panic with.
type failure struct{ err error }

// Try runs a part of a trial in the calling goroutine, and returns the error for which Check or
// Must ended it. Most errors of a trial end it, as those of a test do.
func Try(run func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	run()
	return nil
}

// Check ends what Try runs if there is an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns a value, or ends what Try runs.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}
