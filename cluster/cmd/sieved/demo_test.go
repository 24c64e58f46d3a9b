package main

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/slot"
)

func TestTagsAreInTheirGroups(t *testing.T) {
	for group, tag := range tags {
		require.EqualValues(t, group, slot.GroupOf(slot.Of([]byte("demo:{"+tag+"}:1:1")), 4))
	}
}

func TestOnlyMissingAndOtherValuesAreLost(t *testing.T) {
	want := map[string]string{"k": "v"}
	got := func(value string, err error) error {
		return compare([]string{"k"}, []*redis.StringCmd{redis.NewStringResult(value, err)}, want)
	}
	require.NoError(t, got("v", nil))
	require.ErrorIs(t, got("", redis.Nil), errLost)
	require.ErrorIs(t, got("older", nil), errLost)
	down := errors.New("CLUSTERDOWN slot 1 has no leader now, retry later")
	require.Equal(t, down, got("", down), "it is read again")
}
