package worker

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdlers: who went idle last is woken first; of the times to wake somebody the earliest counts,
// and a later one when it has come.
func TestIdlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		i := idlers{mu: &mu}
		woken := func(wake chan struct{}) bool {
			synctest.Wait()
			select {
			case <-wake:
				return true
			default:
				return false
			}
		}
		first, second, third := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
		now := time.Now()
		mu.Lock()
		i.add(first, now, time.Time{})
		i.add(second, now, now.Add(time.Minute))
		i.add(third, now, now.Add(time.Second))
		i.wakeAt(now, now.Add(time.Hour)) // the alarm is set to an earlier time
		i.wakeAt(now, now)
		mu.Unlock()
		if !woken(third) || woken(second) || woken(first) {
			t.Error("a host is due: not the last one was woken, or not it alone")
		}
		time.Sleep(999 * time.Millisecond)
		if woken(second) {
			t.Error("woken too soon")
		}
		time.Sleep(time.Millisecond)
		if !woken(second) || woken(first) {
			t.Error("not one was woken when the alarm was due")
		}
		mu.Lock()
		i.wakeAt(time.Now(), time.Now().Add(time.Second))
		i.wakeAt(time.Now(), time.Time{})
		mu.Unlock()
		time.Sleep(time.Second)
		if !woken(first) || !i.none() {
			t.Error("the alarm cannot be set again")
		}
		mu.Lock()
		i.wakeAll()
		mu.Unlock()
	})
}
