package loop

import "context"

// Serial runs functions one after another on one goroutine, for a state machine that is not safe
// for concurrent use, without a lock held during disk I/O.
type Serial struct {
	work chan func()
	done chan struct{} // closed when Run has returned
}

// NewSerial returns a Serial; call Run.
func NewSerial() *Serial {
	return &Serial{work: make(chan func(), 64), done: make(chan struct{})}
}

// Run executes the functions passed to Do until ctx ends.
func (s *Serial) Run(ctx context.Context) error {
	defer close(s.done)
	for {
		select {
		case fn := <-s.work:
			fn()
		case <-ctx.Done():
			return nil
		}
	}
}

// Do runs fn on the goroutine of Run and returns when it has returned. After an error fn may never
// run, or run later: read its results only if Do returned nil.
func (s *Serial) Do(ctx context.Context, fn func()) error {
	ran := make(chan struct{})
	select {
	case s.work <- func() { defer close(ran); fn() }:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return ErrStopping
	}
	select {
	case <-ran:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
	}
	select {
	case <-ran: // the last that ran
		return nil
	default:
		return ErrStopping
	}
}

// Get is Do for a function with a result. If Do fails, late writes of fn are not read, unlike a
// named result written by a function given to Do.
func Get[T any](ctx context.Context, s *Serial, fn func() (T, error)) (T, error) {
	var got, none T
	var err error
	if derr := s.Do(ctx, func() { got, err = fn() }); derr != nil {
		return none, derr
	}
	return got, err
}

// DoOver is Do in several turns: fn is called again until it returns true, and others run in
// between.
func (s *Serial) DoOver(ctx context.Context, fn func() (through bool)) error {
	for through := false; !through; {
		if err := s.Do(ctx, func() { through = fn() }); err != nil {
			return err // and through may still be written
		}
	}
	return nil
}
