package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Receipts: an owner signs the outcomes of one message that it has accepted, so that an archive can
// prove that the ring took its pages for true.

// receiptContext begins the signed bytes of a receipt.
const receiptContext = "apoidea receipt 1\x00"

// ReceiptLine appends the line of an outcome: digest of the body, time in Unix ms, counter and
// owner of the lease's epoch in hex, and the URL.
func ReceiptLine(dst []byte, w *HostWork, f *Fetched) []byte {
	epoch := w.GetEpoch()
	if c := w.GetCertificate().GetEpoch(); c != nil {
		epoch = c
	}
	dst = hex.AppendEncode(append(dst, "sha256:"...), f.GetDigest())
	dst = strconv.AppendInt(append(dst, ' '), f.GetFetchedMs(), 10)
	dst = strconv.AppendUint(append(dst, ' '), epoch.GetCounter(), 10)
	dst = hex.AppendEncode(append(dst, '/'), epoch.GetPeer())
	return append(append(append(dst, ' '), f.GetUrl()...), '\n')
}

// SignedReceipt returns the signed bytes of a receipt: the worker's ID with its length before it,
// and the SHA-256 of the lines.
func SignedReceipt(worker string, lines []byte) []byte {
	sum := sha256.Sum256(lines)
	text := append([]byte(receiptContext), byte(len(worker)))
	return append(append(text, worker...), sum[:]...)
}
