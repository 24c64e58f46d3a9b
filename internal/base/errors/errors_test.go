package errors

import (
	stderrors "errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both implementations behave the same: "make test" also runs this test with the build tag.
func TestBothImplementationsAgree(t *testing.T) {
	cause := Sentinel("cause")
	require.Equal(t, "text", New("text").Error())
	require.Equal(t, "7 of 9", Newf("%d of %d", 7, 9).Error())
	require.True(t, stderrors.Is(Newf("%d: %w", 7, cause), cause))
	require.Equal(t, "7: cause", Newf("%d: %w", 7, cause).Error())
	for what, err := range map[string]error{
		"says: cause":   Wrap(cause, "says"),
		"says 7: cause": Wrapf(cause, "says %d", 7),
		"cause":         CombineErrors(cause, fs.ErrNotExist),
	} {
		require.Equal(t, what, err.Error())
		require.Equal(t, what, fmt.Sprint(err))
		require.Equal(t, what, fmt.Sprintf("%s", err))
		require.Equal(t, fmt.Sprintf("%q", what), fmt.Sprintf("%q", err))
		require.True(t, Is(err, cause))
		require.True(t, stderrors.Is(err, cause))
		require.False(t, stderrors.Is(err, fs.ErrNotExist))
	}
	require.NoError(t, Wrap(nil, "says"))
	require.NoError(t, Wrapf(nil, "says"))
	require.NoError(t, CombineErrors(nil, nil))
	require.Equal(t, cause, CombineErrors(nil, cause))
	require.Equal(t, cause, CombineErrors(cause, nil))
	combined := CombineErrors(cause, fs.ErrNotExist)
	for _, err := range []error{combined, Wrap(combined, "says"), Wrapf(Wrap(combined, "says"), "says %d", 7)} {
		require.Contains(t, fmt.Sprintf("%+v", err), fs.ErrNotExist.Error())
	}

	joined := Join(nil, cause, fs.ErrNotExist)
	require.True(t, Is(joined, cause) && Is(joined, fs.ErrNotExist))
	require.NoError(t, Join(nil, nil))

	var path *fs.PathError
	require.True(t, As(Wrap(&fs.PathError{Op: "open", Path: "p", Err: cause}, "says"), &path))
	require.Equal(t, "p", path.Path)
}
