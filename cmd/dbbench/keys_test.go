package main

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGeneratedKeysAreNumbersOfFixedLength(t *testing.T) {
	k := keySpace{num: 1000, keySize: 16}
	require.Equal(t, "x0000000000000007", string(k.appendKey([]byte("x"), 7)))
	require.Equal(t, "0000000000000999", string(k.appendKey(nil, 999)))
	k.keySize = 3
	require.Equal(t, "999", string(k.appendKey(nil, 999)))
}

func TestMissingKeysLieBetweenStoredOnes(t *testing.T) {
	k := keySpace{num: 10, keySize: 4}
	for i := range 9 {
		missing := k.appendMissing(nil, i)
		require.Positive(t, bytes.Compare(missing, k.appendKey(nil, i)))
		require.Negative(t, bytes.Compare(missing, k.appendKey(nil, i+1)))
	}
}

func TestMissingKeysOfAListAreNotInIt(t *testing.T) {
	list, err := parseKeys([]byte("etc\netc.\nfoo\n"))
	require.NoError(t, err)
	k := keySpace{num: list.len(), list: list}
	k.deriveMissing()
	var got []string
	for i := range k.numMissing() {
		got = append(got, string(k.appendMissing(nil, i)))
	}
	require.Equal(t, []string{"etc..", "etc..", "foo."}, got)
}

func TestRandomOrderOfAListHasEachKeyOnce(t *testing.T) {
	list, err := parseKeys([]byte("a\nb\nc\nd\ne\n"))
	require.NoError(t, err)
	k := keySpace{num: list.len(), list: list}
	number := k.order(rand.New(rand.NewPCG(1, 1)))
	seen := make(map[int]int)
	for i := range 2 * k.num {
		seen[number(i)]++
	}
	require.Equal(t, map[int]int{0: 2, 1: 2, 2: 2, 3: 2, 4: 2}, seen)
}
