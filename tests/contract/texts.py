"""Fixed texts: sentences, documents with queries, labelled pairs, labelled sentences."""

MAN, PLAYS, MARKET = "A man is playing a guitar.", "Someone plays an instrument.", "The market fell again."
LONG = (
    "In the winter of 1998, after eleven years at sea, the captain sold his boat, bought a small house on the hill "
    "above the harbour, and wrote down, for nobody in particular, everything that he could remember of the ships, the "
    "storms and the people he had met on the way from Bergen to Valparaiso and back."
)
SENTENCES = [
    MAN, PLAYS, "They did it again.", "The bank raised its interest rate to 5 percent in March.",
    "Well, it is sort of complicated, isn't it?", "Der Mann spielt Gitarre in der Küche.", "Guitar", LONG,
]  # fmt: skip

DOCUMENTS = {
    "password": "To reset your password, open Settings and choose Security.",
    "shipping": "We ship to all of Europe within five days.",
    "office": "Our office is in Lyon, next to the station.",
    "returns": "You can return an item within 30 days if it is unused.",
    "invoice": "Invoices are sent by e-mail at the end of each month.",
    "phone": "Our support team answers the phone from 9 to 5 on weekdays.",
    "delete": "To delete your account, write to us from the address you signed up with.",
    "vegan": "All of our soaps are vegan and made without palm oil.",
}
METADATA = [
    {"lang": "en", "year": 2021, "short": True}, {"lang": "en", "year": 2022}, {"lang": "fr", "year": 2021},
    {"lang": "en", "year": 2023}, {"lang": "de", "year": 2023}, {"lang": "fr", "year": 2022, "short": True},
    {"lang": "de", "year": 2021}, {},
]  # fmt: skip
QUERIES = ["how do I reset my password?", "who won the cup in 1998?", "do you deliver to Spain?", "where are you?"]

TEXTS = [
    "A man is playing a guitar on the street.", "How do I reset my password?", "Heavy rain is expected tonight.",
    "How can I reset my password?", "A man plays the guitar in the street.", "How do I reset my password?",
    "The bank raised its rates.", "Heavy rain is expected this night.", "Where is the office?",
]  # fmt: skip

# The same said in two ways; neighbours are about similar things.
_TWICE = [
    ("A man is playing a guitar.", "A man plays the guitar."),
    ("A woman is playing the violin.", "A lady plays a violin."),
    ("A boy is playing the drums.", "A young boy beats his drums."),
    ("A girl is singing on stage.", "A girl sings in front of an audience."),
    ("The cat sleeps on the sofa.", "A cat is asleep on the couch."),
    ("The dog sleeps under the table.", "Under the table lies a sleeping dog."),
    ("A dog runs across the field.", "A dog is running over a meadow."),
    ("Two horses run along the beach.", "A pair of horses gallops on the beach."),
    ("The bank raised its interest rate.", "Interest rates were increased by the bank."),
    ("The bank cut its interest rate.", "The bank lowered the rate of interest."),
    ("Shares fell sharply on Monday.", "On Monday stocks dropped a lot."),
    ("Shares rose a little on Tuesday.", "Stocks gained slightly on Tuesday."),
    ("The company hired a new manager.", "A new manager joined the firm."),
    ("The company closed two factories.", "Two plants were shut down by the firm."),
    ("Heavy rain is expected tonight.", "It will rain a lot tonight."),
    ("Snow is expected in the mountains.", "It will snow in the hills."),
    ("The storm destroyed several houses.", "A number of homes were ruined by the storm."),
    ("The river flooded the village.", "The village was under water after the river rose."),
    ("She baked a chocolate cake.", "She made a cake with chocolate."),
    ("He cooked a vegetable soup.", "He made soup from vegetables."),
    ("They are eating pizza outside.", "They have a pizza in the open air."),
    ("We drank coffee in the morning.", "In the morning we had some coffee."),
    ("The train to Paris is late.", "The Paris train is delayed."),
    ("The flight to Rome was cancelled.", "There was no flight to Rome after all."),
    ("The bus stops near the school.", "There is a bus stop by the school."),
    ("He repaired his old bicycle.", "He fixed his bike, which was old."),
    ("She sold her red car.", "Her red car has been sold."),
    ("The children are playing football.", "Kids play soccer."),
    ("The team won the final match.", "The final was won by the team."),
    ("The team lost at home.", "They were beaten on their own ground."),
    ("The doctor examined the patient.", "The patient was seen by a doctor."),
    ("The nurse gave him an injection.", "He got a shot from the nurse."),
    ("The court sentenced him to five years.", "He was given five years in prison."),
    ("The police arrested two suspects.", "Two people were taken into custody."),
    ("The president met the minister.", "The minister and the president held a meeting."),
    ("The parliament passed the law.", "The bill was approved by parliament."),
    ("A new bridge was opened in the city.", "The city has a new bridge."),
    ("The museum is closed on Mondays.", "You cannot visit the museum on a Monday."),
    ("The teacher explained the problem.", "The problem was made clear by the teacher."),
    ("The students passed the exam.", "All of the pupils got through the test."),
]
FIRST = [first for first, _ in _TWICE] * 2
SECOND = [second for _, second in _TWICE] + [_TWICE[place ^ 1][1] for place in range(len(_TWICE))]
MATCHES = [1] * len(_TWICE) + [0] * len(_TWICE)
NEW_PAIRS = [  # none of them is above
    ("A man is playing the flute.", "Someone is playing a flute."), ("The bank failed.", "The bank collapsed."),
    ("The bank failed.", "We drank coffee in the morning."), ("It was cold yesterday.", "It was warm yesterday."),
]  # fmt: skip

SPORT = [
    "The match ended in a draw.", "She won the final set.", "Their striker scored twice.",
    "The runner broke the world record.", "The coach praised his players.", "They lost the semi-final on penalties.",
]  # fmt: skip
MONEY = [
    "Shares fell on Monday.", "The bank raised its rates.", "Profits rose this quarter.",
    "Inflation slowed in the spring.", "Investors sold their bonds.", "The company cut its dividend.",
]  # fmt: skip
FOOD = [
    "Simmer the tomatoes with garlic.", "The soup needs a little more salt.", "She baked a loaf of bread.",
    "Serve the fish with lemon and rice.", "He peeled the potatoes.", "The cake was dry but the cream was good.",
]  # fmt: skip
LABELLED, LABELS = SPORT + MONEY + FOOD, ["sport"] * 6 + ["money"] * 6 + ["food"] * 6
UNLABELLED = ["The goalkeeper was injured.", "Interest rates went up.", "Fry the onions slowly.", "It happened again."]
