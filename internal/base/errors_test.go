package base

import (
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
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
