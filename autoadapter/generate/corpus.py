"""What the generated tokenizer test reads: many scripts, emoji with joiners, code, white space that matters."""

CORPUS: dict[str, str] = {
    "english": "The quick brown fox jumps over the lazy dog, doesn't it?",
    "german": "Über die Größe der Äpfel läßt sich streiten.",
    "french": "Où est passé le garçon ? « Là-bas », dit-elle.",
    "russian": "Съешь ещё этих мягких французских булок.",
    "greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "chinese": "我能吞下玻璃而不伤身体。",
    "japanese": "私はガラスを食べられます。それは私を傷つけません。",
    "korean": "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요.",
    "arabic": "أنا قادر على أكل الزجاج و هذا لا يؤلمني.",
    "hebrew": "אני יכול לאכול זכוכית וזה לא מזיק לי.",
    "hindi": "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती.",
    "thai": "ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ",
    "emoji": "Well done 👍🏽 👩‍👩‍👧‍👦 🇫🇷 🤖!",
    "code": 'def area(r: float) -> float:\n    """Circle."""\n\treturn 3.14159 * r ** 2  # {{ r }} ${R}\n',
    "json": '{"name": "x", "list": [1, 2.5, null], "nested": {"a\\\\b": "\\u00e9"}}',
    "numbers": "0 1 12 123 1234 3.14159 1e-9 0xFF 1,000,000",
    "spaces": "one  two   three    four\n\n\nfive\tsix",
}
