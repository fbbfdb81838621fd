(* Tokens are rows of a matrix, as in `constructions/exact.py` (the paper writes columns):
   [x, y] for a point, [c, b] for a center; d coordinates, then p code entries. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Tokens.
Variable F : realFieldType.

(* The squared distance of two tokens: the paper's score is its negative. *)
Definition sqdist m (u v : 'rV[F]_m) : F := \sum_c (u 0 c - v 0 c) ^+ 2.

Lemma sqdist_ge0 m (u v : 'rV[F]_m) : 0 <= sqdist u v.
Proof. by apply: sumr_ge0 => c _; apply: sqr_ge0. Qed.

Lemma sqdist_self m (u : 'rV[F]_m) : sqdist u u = 0.
Proof. by apply: big1 => c _; rewrite subrr expr0n. Qed.

Lemma sqdist_eq0 m (u v : 'rV[F]_m) : (sqdist u v == 0) = (u == v).
Proof.
apply/eqP/eqP => [h|->]; last exact: sqdist_self.
apply/rowP => c.
have /eqP := h; rewrite psumr_eq0 => [/allP /(_ c)|l _]; last exact: sqr_ge0.
by rewrite mem_index_enum sqrf_eq0 subr_eq0 => /(_ isT) /eqP.
Qed.

(* The selectors of the coordinate block and of the code block. *)
Definition place d p : 'M[F]_(d + p) := block_mx 1%:M 0 0 0.
Definition mark d p : 'M[F]_(d + p) := block_mx 0 0 0 1%:M.

Lemma mul_place n d p (X : 'M[F]_(n, d)) (Y : 'M[F]_(n, p)) :
  row_mx X Y *m place d p = row_mx X 0.
Proof. by rewrite mul_row_block !mulmx0 mulmx1 !addr0. Qed.

Lemma mul_mark n d p (X : 'M[F]_(n, d)) (Y : 'M[F]_(n, p)) :
  row_mx X Y *m mark d p = row_mx 0 Y.
Proof. by rewrite mul_row_block !mulmx0 mulmx1 !add0r. Qed.

Lemma sqdist_row_mx d p (u v : 'rV[F]_d) (y z : 'rV[F]_p) :
  sqdist (row_mx u y) (row_mx v z) = sqdist u v + sqdist y z.
Proof.
rewrite /sqdist big_split_ord; congr (_ + _); apply: eq_bigr => c _.
  by rewrite !row_mxEl.
by rewrite !row_mxEr.
Qed.

End Tokens.
