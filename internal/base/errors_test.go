package base

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base/errors"
)

// An error gets the file in which it was found once, whichever decoder found it.
func TestAnErrorIsOfTheFileInWhichItWasFound(t *testing.T) {
	require.NoError(t, InFile(nil, "f", 1))
	for _, made := range []func(offset int64) error{
		func(offset int64) error { return Corruptf("footer", offset, "%d bytes", 3) },
		func(offset int64) error { return Newerf("footer", offset, "%d bytes", 3) },
	} {
		inside := made(-1)
		require.True(t, IsUnreadable(inside))
		require.NotContains(t, inside.Error(), "offset")
		located := InFile(inside, "db/a", 7)
		require.ErrorContains(t, located, "db/a: footer at offset 7: 3 bytes")
		require.Equal(t, located, InFile(located, "db/b", 9))
		require.ErrorContains(t, InFile(made(5), "db/a", 7), "at offset 5")
	}
	other := InFile(io.ErrUnexpectedEOF, "db/a", 7)
	require.ErrorIs(t, other, io.ErrUnexpectedEOF)
	require.ErrorContains(t, other, "db/a")
	require.False(t, IsUnreadable(other))
}

func TestAPanicSaysWhereItWasAndWhoseItWas(t *testing.T) {
	mine := &Comparer{Name: "mine", Compare: func(_, _ []byte) int { panic("boom") }}
	err := Catch(mine, "a flush", func() error { mine.Compare(nil, nil); return nil })
	var p *PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, "boom", p.Value)
	require.Equal(t, "mine", p.Comparer)
	require.Contains(t, p.Place, "errors_test.go")
	require.NotEmpty(t, p.Stack)

	require.ErrorAs(t, Catch(mine, "a flush", func() error { panic("another") }), &p)
	require.Empty(t, p.Comparer)
	require.ErrorAs(t, Catch(Bytewise, "a flush", func() error { panic(3) }), &p)
	require.Equal(t, 3, p.Value)
	require.NoError(t, Catch(nil, "a flush", func() error { return nil }))
	require.Equal(t, io.EOF, Catch(nil, "a flush", func() error { return io.EOF }))
}

// A function that ends its goroutine is a panic without a value.
func TestAnEndedGoroutineIsAPanicWithoutAValue(t *testing.T) {
	ended := make(chan error, 1)
	go func() {
		defer func() { ended <- NewPanicError(nil, "a flush", recover()) }()
		runtime.Goexit()
	}()
	var p *PanicError
	require.ErrorAs(t, <-ended, &p)
	require.Nil(t, p.Value)
	require.Contains(t, p.Place, "errors_test.go")
}

func TestNoSpaceRecognizesAFullDisk(t *testing.T) {
	for _, cause := range []error{
		syscall.ENOSPC,
		syscall.EDQUOT,
		&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC},
		errors.Wrap(&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.ENOSPC}, "context"),
	} {
		require.True(t, IsNoSpace(cause))
		err := NoSpace(cause)
		require.True(t, errors.Is(err, ErrNoSpace))
		require.True(t, errors.Is(err, cause), "the cause is preserved")
		require.Same(t, err, NoSpace(err), "marked once")
		require.True(t, errors.Is(errors.Wrap(err, "outside"), ErrNoSpace))
	}
	for _, other := range []error{nil, syscall.EIO, ErrReadOnly, fs.ErrNotExist} {
		require.False(t, IsNoSpace(other))
		require.Equal(t, other, NoSpace(other))
	}
}

func TestARefusedWriteIsOneWithoutPermissionOrOfAReadOnlyFileSystem(t *testing.T) {
	for _, refused := range []error{syscall.EACCES, syscall.EPERM, &fs.PathError{Op: "mkdir", Path: "d", Err: syscall.EROFS}} {
		require.True(t, IsWriteRefused(errors.Wrap(refused, "context")))
	}
	for _, other := range []error{nil, syscall.EIO, syscall.ENOSPC, fs.ErrNotExist} {
		require.False(t, IsWriteRefused(other))
	}
}

// Neither form of a goroutine has the labels of its caller, nor have those that it starts itself.
func TestGoroutinesHaveNoLabelsOfTheCaller(t *testing.T) {
	var group sync.WaitGroup
	end, running := make(chan struct{}), make(chan struct{})
	wait := func() { running <- struct{}{}; <-end }
	pprof.Do(context.Background(), pprof.Labels("caller", "labelled"), func(context.Context) {
		Go(wait)
		GoIn(&group, func() { go wait(); wait() })
		for range 3 {
			<-running
		}
		require.Equal(t, 1, bytes.Count(goroutines(t), []byte("labelled")), "the caller itself")
	})
	close(end)
	group.Wait()
	require.NotContains(t, string(goroutines(t)), "labelled")
}

func goroutines(t *testing.T) []byte {
	var text bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
	return text.Bytes()
}

// Calls from listeners are recognized by the number of their goroutine, which the runtime does not promise to show.
func TestGoroutinesHaveNumbers(t *testing.T) {
	own := GoroutineID()
	require.NotZero(t, own)
	require.Equal(t, own, GoroutineID())
	other := make(chan uint64)
	go func() { other <- GoroutineID() }()
	require.NotContains(t, []uint64{0, own}, <-other)
}

func TestAGoroutineThatRunsACallbackIsRecognized(t *testing.T) {
	var c Callbacks
	require.False(t, c.InThisGoroutine())
	failed := c.During(func() error {
		require.True(t, c.InThisGoroutine())
		require.NoError(t, c.During(func() error { require.True(t, c.InThisGoroutine()); return nil }))
		elsewhere := make(chan bool)
		go func() { elsewhere <- c.InThisGoroutine() }()
		require.False(t, <-elsewhere)
		require.True(t, c.InThisGoroutine())
		return ErrClosed
	})
	require.Equal(t, ErrClosed, failed)
	require.False(t, c.InThisGoroutine())
	require.Zero(t, c.running.Load(), "the next calls cost one load")
}

type namer interface{ Name() string }

type plainNamer struct{ bits int }

func (p plainNamer) Name() string { return "plain" }

// severalNamers is a namer whose values cannot be compared with ==.
type severalNamers []namer

func (s severalNamers) Name() string { return "several" }

// hookedNamer has a function, which can be compared with nothing but itself.
type hookedNamer struct{ f func() }

func (h hookedNamer) Name() string { panic("no code of a setting is called") }

type settingGroup struct {
	Size   int64
	Policy namer
	Many   []namer
}

type settingSet struct {
	Mode  fs.FileMode
	First settingGroup
	Other settingGroup
	Err   error
	Call  func()
	Names map[string]int
	At    *int
	Few   [2]float64
}

func TestChangedFieldsAreNamed(t *testing.T) {
	f, n := func() {}, 1
	base := settingSet{
		Mode: 1, First: settingGroup{Size: 1, Policy: severalNamers{plainNamer{1}, hookedNamer{f}}, Many: []namer{hookedNamer{f}}}, Call: f,
		Names: map[string]int{"a": 1}, At: &n, Err: errors.ErrUnsupported,
	}
	for _, c := range []struct {
		name   string
		change func(*settingSet)
		want   []string
	}{
		{"nothing", func(*settingSet) {}, nil},
		{"a copy of a slice", func(o *settingSet) { o.First.Many = append([]namer(nil), o.First.Many...) }, nil},
		{"an equal list of policies", func(o *settingSet) { o.First.Policy = severalNamers{plainNamer{1}, hookedNamer{f}} }, nil},
		{"a scalar", func(o *settingSet) { o.Mode = 2 }, []string{"Mode"}},
		{"fields of groups", func(o *settingSet) { o.First.Size, o.Other.Size = 2, 2 }, []string{"First.Size", "Other.Size"}},
		{"a policy's value", func(o *settingSet) { o.First.Policy = severalNamers{plainNamer{2}, hookedNamer{f}} }, []string{"First.Policy"}},
		{"a policy's type", func(o *settingSet) { o.First.Policy = plainNamer{1} }, []string{"First.Policy"}},
		{"a policy that was nil", func(o *settingSet) { o.Other.Policy = plainNamer{1} }, []string{"Other.Policy"}},
		{"a policy removed", func(o *settingSet) { o.First.Policy = nil }, []string{"First.Policy"}},
		{"an empty list that was nil", func(o *settingSet) { o.Other.Many = []namer{} }, nil},
		{"a list", func(o *settingSet) { o.First.Many = nil }, []string{"First.Many"}},
		{"an element", func(o *settingSet) { o.First.Many = []namer{hookedNamer{nil}} }, []string{"First.Many"}},
		{"a function", func(o *settingSet) { o.Call = nil }, []string{"Call"}},
		{"a map", func(o *settingSet) { o.Names = map[string]int{"a": 1} }, []string{"Names"}},
		{"a pointer", func(o *settingSet) { o.At = new(int) }, []string{"At"}},
		{"an error", func(o *settingSet) { o.Err = fs.ErrExist }, []string{"Err"}},
		{"an array", func(o *settingSet) { o.Few[1] = 1 }, []string{"Few"}},
		{"ignored fields", func(o *settingSet) { o.Other.Size, o.Call, o.First.Size = 7, nil, 7 }, []string{"First.Size"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := base
			c.change(&o)
			var ignored []string
			if c.name == "ignored fields" {
				ignored = []string{"Other.", "Call", "Fir"}
			}
			require.Equal(t, c.want, ChangedFields(base, o, ignored...))
		})
	}
}
