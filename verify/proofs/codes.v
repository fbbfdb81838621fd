(* The codes of the corollaries: bits of width up to ceil(log2 k), unit vectors, one number. *)
From mathcomp Require Import all_ssreflect all_algebra.
From LeanLloyd Require Import tokens hardmax lloyd exact.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Bit b of j, least significant first, as in `constructions/codes.py`. *)
Definition bit (j b : nat) : bool := odd (j %/ 2 ^ b).

Lemma eq_bits p i j : (i < 2 ^ p)%N -> (j < 2 ^ p)%N ->
  (forall b, (b < p)%N -> bit i b = bit j b) -> i = j.
Proof.
elim: p i j => [|p IH] i j; first by rewrite expn0 !ltnS !leqn0 => /eqP -> /eqP ->.
rewrite expnS => hi hj h.
have half (l : nat) : (l < 2 * 2 ^ p)%N -> (l %/ 2 < 2 ^ p)%N.
  by rewrite ltn_divLR // mulnC.
have e : (i %/ 2 = j %/ 2)%N.
  apply: IH; [exact: half | exact: half | move=> b hb].
  by have := h b.+1 hb; rewrite /bit expnS !divnMA.
have := h 0%N isT; rewrite /bit expn0 !divn1 => ho.
by rewrite (divn_eq i 2) (divn_eq j 2) e !modn2 ho.
Qed.

Section Codes.
Variables (F : realFieldType) (n k d : nat).
Implicit Types (X : 'M[F]_(n, d)) (C : 'M[F]_(k, d)).

Definition binary p : 'M[F]_(k, p) := \matrix_(j, b) (bit j b)%:R.
Definition one_hot : 'M[F]_(k, k) := 1%:M.
Definition scalar : 'M[F]_(k, 1) := \matrix_(j, _) (j : nat)%:R.

(* up_log 2 k is the least p with k <= 2^p: the rounded-up logarithm. *)
Lemma binary_distinct : distinct_codes (binary (up_log 2 k)).
Proof.
move=> i j /rowP h; apply: val_inj; apply: (@eq_bits (up_log 2 k)).
- exact: leq_trans (ltn_ord i) (up_logP k (isT : (1 < 2)%N)).
- exact: leq_trans (ltn_ord j) (up_logP k (isT : (1 < 2)%N)).
move=> b hb; move: (h (Ordinal hb)); rewrite !mxE => /eqP; rewrite eqr_nat /=.
by case: (bit i b); case: (bit j b).
Qed.

Lemma one_hot_distinct : distinct_codes one_hot.
Proof.
move=> i j /rowP /(_ j); rewrite !mxE eqxx; case: (i =P j) => // _ /eqP.
by rewrite eqr_nat.
Qed.

Lemma scalar_distinct : distinct_codes scalar.
Proof.
move=> i j /rowP /(_ ord0); rewrite !mxE => /eqP; rewrite eqr_nat => /eqP; exact: val_inj.
Qed.

(* Theorem 2.1: token width d + ceil(log2 k). *)
Theorem binary_is_lloyd t X C : good_run t X C ->
  stacked t X C (binary (up_log 2 k)) = lloyd t X C /\
  reembedded t X C (binary (up_log 2 k)) = lloyd t X C.
Proof.
by move=> h; split; [apply: stacked_is_lloyd | apply: reembedded_is_lloyd] => //;
  apply: binary_distinct.
Qed.

Theorem one_hot_is_lloyd t X C : good_run t X C ->
  stacked t X C one_hot = lloyd t X C /\ reembedded t X C one_hot = lloyd t X C.
Proof.
by move=> h; split; [apply: stacked_is_lloyd | apply: reembedded_is_lloyd] => //;
  apply: one_hot_distinct.
Qed.

(* Token width d + 1 for every k. *)
Theorem scalar_is_lloyd t X C : good_run t X C ->
  stacked t X C scalar = lloyd t X C /\ reembedded t X C scalar = lloyd t X C.
Proof.
by move=> h; split; [apply: stacked_is_lloyd | apply: reembedded_is_lloyd] => //;
  apply: scalar_distinct.
Qed.

End Codes.

(* An instance that meets the hypotheses at every step: each center on its own point. *)
Section Witness.
Variables (F : realFieldType) (k : nat).

Definition spread : 'M[F]_(k, 1) := scalar F k.

Lemma spread_nearest i : nearest (row i spread) spread = [set i].
Proof.
rewrite (nearest_hit (erefl (row i spread))); apply/setP => j; rewrite !inE.
by apply/eqP/eqP => [/scalar_distinct|->].
Qed.

Lemma spread_cluster j : cluster spread spread j = [set j].
Proof.
apply/setP => i; rewrite !inE /assignment spread_nearest.
case: pickP => [l|/(_ i)]; rewrite in_set1 ?eqxx // => /eqP ->.
by apply/eqP/eqP => [[]|->].
Qed.

Lemma spread_stays t : lloyd t spread spread = spread.
Proof.
elim: t => [//|t IH]; rewrite /lloyd iterS -/(lloyd t spread spread) IH.
apply/row_matrixP => j; rewrite rowK spread_cluster -(negbK (_ == set0)) /=.
have -> : [set j] != set0 by apply/set0Pn; exists j; rewrite in_set1.
apply: mean_const; first by apply/set0Pn; exists j; rewrite in_set1.
by move=> i; rewrite in_set1 => /eqP ->.
Qed.

Theorem hypotheses_can_be_met t : good_run t spread spread.
Proof.
move=> s _; rewrite spread_stays; split=> [i j l|j].
  by rewrite spread_nearest !in_set1 => /eqP -> /eqP ->.
by rewrite spread_cluster; apply/set0Pn; exists j; rewrite in_set1.
Qed.

End Witness.
