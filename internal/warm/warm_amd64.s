#include "textflag.h"

// func each(at *uintptr, n int)
TEXT ·each(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
next:
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	ADDQ $8, SI
	DECQ CX
	JNZ  next
	RET

// func lines(at uintptr, n int)
TEXT ·lines(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), AX
	MOVQ n+8(FP), CX
next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ CX
	JGT  next
	RET
