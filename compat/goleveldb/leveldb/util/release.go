package util

import "errors"

// The errors of releasers. SetReleaser panics with them.
var (
	ErrReleased    = errors.New("leveldb: resource already relesed")
	ErrHasReleaser = errors.New("leveldb: releaser already defined")
)

// Releaser frees what a value holds. Release may be called more than once.
type Releaser interface {
	Release()
}

// ReleaseSetter is a value that releases another one with itself.
type ReleaseSetter interface {
	// SetReleaser registers the releaser to call at the release; nil removes it. It panics if the
	// value is released or already has a releaser.
	SetReleaser(releaser Releaser)
}

// BasicReleaser is a Releaser and a ReleaseSetter to embed. The zero value is ready for use.
type BasicReleaser struct {
	next Releaser
	done bool
}

// Released reports whether Release was called.
func (r *BasicReleaser) Released() bool { return r.done }

// Release calls the registered releaser, the first time only.
func (r *BasicReleaser) Release() {
	if r.done {
		return
	}
	next := r.next
	r.next = nil
	if next != nil {
		next.Release()
	}
	r.done = true
}

// SetReleaser implements ReleaseSetter.
func (r *BasicReleaser) SetReleaser(releaser Releaser) {
	switch {
	case r.done:
		panic(ErrReleased)
	case r.next != nil && releaser != nil:
		panic(ErrHasReleaser)
	}
	r.next = releaser
}

// NoopReleaser does nothing.
type NoopReleaser struct{}

// Release implements Releaser.
func (NoopReleaser) Release() {}
