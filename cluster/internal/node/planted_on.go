//go:build sieved_planted

package node

const planted = true
