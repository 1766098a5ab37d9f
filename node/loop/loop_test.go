package loop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestSerial: what is handed over runs whole and in its order, and what takes several turns lets
// others in between.
func TestSerial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := NewSerial()
		go func() { _ = s.Run(ctx) }()
		var said []string // on the loop only
		first := make(chan struct{})
		go func() {
			turns := 0
			_ = s.DoOver(ctx, func() bool {
				said = append(said, fmt.Sprint("turn ", turns))
				if turns++; turns == 1 {
					<-first
				}
				return turns == 3
			})
		}()
		synctest.Wait()
		go func() { _ = s.Do(ctx, func() { said = append(said, "another") }) }()
		synctest.Wait()
		close(first)
		synctest.Wait()
		if got, want := fmt.Sprint(said), "[turn 0 another turn 1 turn 2]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		cancel()
		synctest.Wait()
		if err := s.Do(context.Background(), func() { t.Error("ran after the end") }); !errors.Is(err, ErrStopping) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestDoEndsWithItsContext: nobody waits for a loop that hangs longer than their own context lasts.
func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := NewSerial().Do(ctx, func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a loop that does not run: %v", err)
		}
	})
}

// TestGet: what a function returns comes back with its error; of one that ends too late nothing
// does.
func TestGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSerial()
		run, stop := context.WithCancel(t.Context())
		go func() { _ = s.Run(run) }()
		broken := errors.New("broken")
		if got, err := Get(run, s, func() (int, error) { return 7, broken }); got != 7 || !errors.Is(err, broken) {
			t.Errorf("%d, %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := func() (int, error) {
			time.Sleep(2 * time.Second)
			return 7, nil
		}
		if got, err := Get(ctx, s, late); got != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of a function that takes longer: %d, %v", got, err)
		}
		time.Sleep(2 * time.Second)
		stop()
		synctest.Wait()
	})
}

func TestUnless(t *testing.T) {
	other := errors.New("other")
	for _, row := range []struct {
		err                error
		stopping, canceled error
	}{
		{},
		{err: other, stopping: other, canceled: other},
		{err: context.Canceled},
		{err: ErrStopping, canceled: ErrStopping},
	} {
		if got := UnlessStopping(row.err); !errors.Is(got, row.stopping) || (got == nil) != (row.stopping == nil) {
			t.Errorf("UnlessStopping(%v) = %v", row.err, got)
		}
		if got := UnlessCanceled(row.err); !errors.Is(got, row.canceled) || (got == nil) != (row.canceled == nil) {
			t.Errorf("UnlessCanceled(%v) = %v", row.err, got)
		}
	}
}

// TestWake: a token that lies there already is enough.
func TestWake(t *testing.T) {
	c := make(chan struct{}, 1)
	Wake(c)
	Wake(c)
	<-c
	select {
	case <-c:
		t.Error("woken twice")
	default:
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := Sleep(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Sleep(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
