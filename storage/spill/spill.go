// Package spill is a bounded queue of byte items that keeps the first of them in memory and the rest in one file: the
// Processing-Jobs of Apoidea (section 3), where downloaded pages wait to be processed and all beyond a number go to disk.
//
// Items come out in the order in which they went in. The file is a ring: what was read makes room, so that a queue which
// never runs empty does not fill it up; it is removed when it has been read to its end. Nothing survives the process: what waits here was not reported, and will be fetched
// again. All methods may be called by many goroutines.
package spill

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Errors that a caller decides by.
var (
	// ErrFull says that neither memory nor the file has room. The pusher must wait.
	ErrFull = errors.New("queue is full")
	// ErrClosed says that the queue was closed. Items that were in it are gone.
	ErrClosed = errors.New("queue closed")
)

// Queue is a FIFO queue. Create it with New, end it with Close.
type Queue struct {
	dir       string
	memBytes  int64
	diskBytes int64

	mu       sync.Mutex // guards all below, and spans the write or read of one item on disk
	memory   [][]byte   // the oldest items
	inMemory int64      // their size, in bytes
	file     *os.File   // the younger ones; nil when there are none
	read     int64      // bytes ever read from the file; its place in the ring is that modulo diskBytes
	written  int64      // bytes ever written to it
	onDisk   int        // items in the file
	closed   bool
	ready    chan struct{} // holds a token while somebody may find an item, or the end
}

// headerLen is the length of an item in the file, before the item.
const headerLen = 4

// New returns an empty queue that keeps up to memBytes in memory and, beyond that, a file of up to diskBytes in dir, which
// is made when it is needed. An item larger than memBytes goes to disk; a diskBytes of zero means no file.
func New(dir string, memBytes, diskBytes int64) *Queue {
	return &Queue{dir: dir, memBytes: memBytes, diskBytes: diskBytes, ready: make(chan struct{}, 1)}
}

// Push appends item, which the queue then owns. The error is ErrFull, ErrClosed, or that of the disk; then the item was
// not taken.
func (q *Queue) Push(item []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	// While the file holds items the memory must not take younger ones, or they would overtake.
	if q.onDisk == 0 && q.inMemory+int64(len(item)) <= q.memBytes {
		q.memory = append(q.memory, item)
		q.inMemory += int64(len(item))
	} else if err := q.pushDisk(item); err != nil {
		return err
	}
	q.wake()
	return nil
}

func (q *Queue) pushDisk(item []byte) error {
	if used := q.written - q.read + headerLen + int64(len(item)); used > q.diskBytes || len(item) > maxItem {
		return ErrFull
	}
	if q.file == nil {
		file, err := os.CreateTemp(q.dir, "spill-*")
		if err != nil {
			return fmt.Errorf("spill to disk: %w", err)
		}
		q.file = file
	}
	header := binary.BigEndian.AppendUint32(nil, uint32(len(item)))
	err := errors.Join(q.ring(q.file.WriteAt, header, q.written), q.ring(q.file.WriteAt, item, q.written+headerLen))
	if err != nil {
		// written stays, so the half item is overwritten by the next.
		return fmt.Errorf("spill to disk: %w", err)
	}
	q.written += headerLen + int64(len(item))
	q.onDisk++
	return nil
}

// ring does op, WriteAt or ReadAt, for the bytes that begin at place at, in two parts where they pass the ring's end.
func (q *Queue) ring(op func([]byte, int64) (int, error), p []byte, at int64) error {
	at %= q.diskBytes
	first := min(int64(len(p)), q.diskBytes-at)
	if _, err := op(p[:first], at); err != nil || first == int64(len(p)) {
		return err
	}
	_, err := op(p[first:], 0)
	return err
}

// maxItem bounds one item on disk, in bytes, since its length is kept in four.
const maxItem = 1<<31 - 1

// Pop removes and returns the oldest item, and waits for one until ctx ends. After Close it returns ErrClosed.
func (q *Queue) Pop(ctx context.Context) ([]byte, error) {
	for {
		item, ok, err := q.take()
		if ok || err != nil {
			return item, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-q.ready:
		}
	}
}

// take returns the oldest item if there is one, and passes the token on if there are more.
func (q *Queue) take() (item []byte, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		err = ErrClosed
	case len(q.memory) > 0:
		item, q.memory[0] = q.memory[0], nil
		q.memory = q.memory[1:]
		q.inMemory -= int64(len(item))
	case q.onDisk > 0:
		item, err = q.popDisk()
	default:
		return nil, false, nil
	}
	if q.closed || len(q.memory) > 0 || q.onDisk > 0 {
		q.wake()
	}
	return item, err == nil, err
}

func (q *Queue) popDisk() ([]byte, error) {
	var header [headerLen]byte
	if err := q.ring(q.file.ReadAt, header[:], q.read); err != nil {
		return nil, q.lose(err)
	}
	item := make([]byte, binary.BigEndian.Uint32(header[:]))
	if err := q.ring(q.file.ReadAt, item, q.read+headerLen); err != nil {
		return nil, q.lose(err)
	}
	q.read += headerLen + int64(len(item))
	q.onDisk--
	if q.onDisk == 0 {
		return item, q.drop()
	}
	return item, nil
}

// lose gives the file up when it cannot be read: its pages will be fetched again.
func (q *Queue) lose(err error) error {
	q.onDisk = 0
	return fmt.Errorf("read back what was spilled: %w", errors.Join(err, q.drop()))
}

// drop removes the file.
func (q *Queue) drop() error {
	file := q.file
	q.file, q.read, q.written = nil, 0, 0
	if file == nil {
		return nil
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

func (q *Queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Stats says how full a queue is.
type Stats struct {
	Items       int   // in memory and on disk
	MemoryBytes int64 // of items in memory
	DiskBytes   int64 // of items on disk
}

// Stats returns how full the queue is.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{Items: len(q.memory) + q.onDisk, MemoryBytes: q.inMemory, DiskBytes: q.written - q.read}
}

// Close drops what is in the queue, removes the file and wakes everybody in Pop. A second Close returns nil.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	q.memory, q.inMemory, q.onDisk = nil, 0, 0
	q.wake()
	return q.drop()
}
